import { play } from "./trip.mjs";

await play();
