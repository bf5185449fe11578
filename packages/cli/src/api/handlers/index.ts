// All handlers, by route.
// Owns: nothing.
// Invariants: every route but the stream of events has one.

import { bulk } from "./bulk.ts";
import type { HandledRoute, Handlers } from "./handler.ts";
import { health } from "./health.ts";
import { operating } from "./operating.ts";
import { readRuns } from "./readRuns.ts";
import { writeRuns } from "./writeRuns.ts";

export const HANDLERS: Handlers<HandledRoute> = { ...readRuns, ...writeRuns, ...bulk, ...operating, ...health };
