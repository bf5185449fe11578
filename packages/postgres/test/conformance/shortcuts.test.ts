// The Postgres store as it is.

import { describe } from "vitest";
import { postgresConformance } from "./suite.ts";

describe("PostgresStore with shortcuts", () => postgresConformance({ shortcuts: true }));
