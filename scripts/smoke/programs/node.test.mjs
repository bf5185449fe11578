import assert from "node:assert/strict";
import { test } from "node:test";
import { define } from "./body.mjs";

define(test, assert.equal);
