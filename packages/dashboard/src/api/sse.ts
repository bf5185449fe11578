// Server-sent events out of a stream of text.
// Owns: the parser. Pure.

export interface ServerEvent {
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
}

/** Takes text as it arrives, in pieces of any size, and gives the events that are complete. */
export class EventParser {
  #rest = "";
  #id = "";

  get lastId(): string {
    return this.#id;
  }
  push(text: string): ServerEvent[] {
    const blocks = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = blocks.pop() ?? "";
    return blocks.flatMap((block) => this.#eventOf(block));
  }
  #eventOf(block: string): ServerEvent[] {
    let event = "message";
    const data: string[] = [];
    for (const line of block.split(/\r?\n/)) {
      const [, field, content = ""] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
      if (field === "event") event = content;
      else if (field === "data") data.push(content);
      else if (field === "id") this.#id = content;
    }
    if (data.length === 0) return [];
    try {
      return [{ id: this.#id, event, data: JSON.parse(data.join("\n")) as unknown }];
    } catch {
      return [];
    }
  }
}
