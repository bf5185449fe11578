// A plugin of TypeDoc. Modules are called by the name that a program imports ("holdfast/testing"), not by the path of their source, and
// a name that several doors export is described at the first of them: users import from `holdfast` what the core defines.

import { Comment, Converter, ReflectionKind } from "typedoc";
import { doors } from "./reference.mjs";

/** @param {import("typedoc").Application} app */
export function load(app) {
  const list = doors();
  app.converter.on(Converter.EVENT_CREATE_DECLARATION, (_context, reflection) => {
    if (!reflection.kindOf(ReflectionKind.Module)) return;
    const file = reflection.project.getSymbolIdFromReflection(reflection)?.fileName;
    const door = list.find(({ source }) => source === file);
    if (door === undefined) return;
    reflection.name = door.name;
    reflection.comment ??= new Comment();
    reflection.comment.modifierTags.add("@primaryExport");
  });
}
