const { Holdfast, workflow } = require("holdfast");
const trip = require("./trip.mjs");

if (typeof Holdfast.open !== "function" || workflow === undefined) throw new Error("require returned something else.");
trip.play();
