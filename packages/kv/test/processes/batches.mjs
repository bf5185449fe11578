// Writes batches to a run's namespace in a LevelDB until it is killed. Says on stdout how many it has written.

import { writeUntilKilled } from "@holdfast/conformance";
import { LevelStore } from "@holdfast/kv/level";

const store = await LevelStore.open(process.argv[2]);
await writeUntilKilled(store.driver("killed"), (batches) => process.stdout.write(`${batches}\n`));
