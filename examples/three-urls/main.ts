// node main.js <url> [id]: runs a trip to its end. If it is killed, start it again with the same arguments: it continues.

import { Holdfast } from "holdfast";
import { trip } from "./trip.ts";

const [url = "file:trips.db", id = "trip-1"] = process.argv.slice(2);

const engine = await Holdfast.open(url);
await engine.worker({ workflows: [trip] });
const run = await engine.start(trip, { to: "Lisbon", travellers: 3 }, { id, onConflict: "use-existing" });
console.log("ready");
console.log(JSON.stringify(await run.result()));
await engine.close();
