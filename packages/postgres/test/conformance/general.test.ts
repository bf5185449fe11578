// The Postgres store without its shortcuts: every call goes the general way.

import { describe } from "vitest";
import { postgresConformance } from "./suite.ts";

describe("PostgresStore without shortcuts", () => postgresConformance({ shortcuts: false }));
