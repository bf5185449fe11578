import express from "express";
import { begin, end, engine } from "./trip.mjs";

await engine();
const app = express();
app.get("/begin", async (_request, response) => response.json(await begin()));
app.get("/end", async (_request, response) => response.json(await end()));
app.listen(Number(process.env.PORT), "127.0.0.1");
