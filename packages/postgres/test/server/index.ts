// The server that tests of this package run on.
// Owns: nothing.
// Invariants: those of @holdfast/postgres-server.

export {
  canOwnServers,
  emptySchema,
  LAST_BYTES,
  type ServerOptions,
  SlowNetwork,
  startServer,
  type TestServer,
} from "@holdfast/postgres-server";
