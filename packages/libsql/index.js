"use strict";
// npm leaves out an optional dependency whose `engines` don't fit. This package has no other purpose.

module.exports = require("libsql");
