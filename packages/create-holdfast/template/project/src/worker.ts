// The worker of production: `node dist/worker.js`, as many processes as you like. `holdfast dev` has its own.

import { Holdfast } from "holdfast";
import { signup } from "./workflows/signup.ts";

const holdfast = await Holdfast.open(process.env["HOLDFAST_URL"] ?? "file:.holdfast/holdfast.db");
const worker = await holdfast.worker({ workflows: [signup] });
console.log(`Worker ${worker.id} is ready.`);

// Running steps get time to end, and other workers get the runs. A process that is killed loses nothing either.
const stop = async (): Promise<void> => {
  await worker.stop();
  await holdfast.close();
};
process.once("SIGTERM", stop);
process.once("SIGINT", stop);
