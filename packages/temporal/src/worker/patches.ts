// The ids of patch markers in Temporal's history.
// Owns: their form: the bare id for the root, else the id, an at sign and the path of the unit.
// Invariants: V1 (a patch is decided for each unit by itself), and every pair of id and unit has its own marker.

/** At signs in the id are escaped: the first one that is not is the separator. */
export function markerOf(id: string, unit: string): string {
  const escaped = id.replace(/[%@]/g, (char) => (char === "%" ? "%25" : "%40"));
  return unit === "" ? escaped : `${escaped}@${unit}`;
}
export function patchOf(marker: string): { readonly id: string; readonly unit: string } {
  const at = marker.indexOf("@");
  const [escaped, unit] = at < 0 ? [marker, ""] : [marker.slice(0, at), marker.slice(at + 1)];
  return { id: escaped.replace(/%(25|40)/g, (code) => (code === "%25" ? "%" : "@")), unit };
}
