import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { begin, end, engine } from "./trip.mjs";

await engine();
const app = new Hono();
app.get("/begin", async (context) => context.json(await begin()));
app.get("/end", async (context) => context.json(await end()));
serve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: "127.0.0.1" });
