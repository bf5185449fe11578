import { begin, end } from "../../trip.mjs";

export const dynamic = "force-dynamic";

export async function GET(_request, { params }) {
  const { action } = await params;
  return Response.json(await (action === "begin" ? begin() : end()));
}
