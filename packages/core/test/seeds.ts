// What fast-check draws: the same every time, unless it is night. Loaded before every test file.

import fc from "fast-check";

if ((process.env["HOLDFAST_NIGHTLY"] ?? "") === "") fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: 20_260_101 });
