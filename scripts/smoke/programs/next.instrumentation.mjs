// Next calls this once, when the server starts: runs go on without a request.

export async function register() {
  if (process.env.NEXT_RUNTIME !== "nodejs") return;
  const { engine } = await import("./trip.mjs");
  await engine();
}
