export function play(): Promise<number>;
