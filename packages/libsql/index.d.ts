import Database = require("libsql");
export = Database;
