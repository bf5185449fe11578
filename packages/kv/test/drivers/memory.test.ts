// Job: hold the memory driver against the port.
// Owns: nothing.
// Invariants: those of the suite.

import { driverConformance } from "@holdfast/conformance";
import { type EngineDriver, MemoryDriver } from "@holdfast/kv";
import { describe, test } from "vitest";

const memory = (driver: EngineDriver) => driver as MemoryDriver;

describe("the memory driver", () =>
  driverConformance({
    name: "memory",
    test,
    makeDriver: () => new MemoryDriver(),
    beside: (driver) => new MemoryDriver({ alarms: memory(driver).alarms }),
    // The process of a namespace in memory does not end without it; another driver of it is the nearest there is.
    reopen: (driver) => new MemoryDriver({ namespace: memory(driver).namespace, alarms: memory(driver).alarms }),
    alarmOf: (driver, runId) => memory(driver).alarms.get(runId),
  }));
