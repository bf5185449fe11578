// What the tests on a server share.

import type { Logger } from "@holdfast/core";

export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
