// Work for so many milliseconds of the processor, however many others want it.

function worked() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

export function spin(ms) {
  const end = worked() + ms;
  for (let i = 0; worked() < end; ) for (const rest = i + 1_000_000; i < rest; i++);
}
