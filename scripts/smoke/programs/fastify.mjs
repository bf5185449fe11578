import Fastify from "fastify";
import { begin, end, engine } from "./trip.mjs";

await engine();
const app = Fastify();
app.get("/begin", async () => JSON.stringify(await begin()));
app.get("/end", async () => JSON.stringify(await end()));
await app.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
