// What Go puts into the page: the run as JSON, with columns for calls and tasks. Times are nanoseconds since the run
// began. NONE is the index of nothing.

export const NONE = -1;

export interface Data {
  version: number;
  program: string[];
  started: string;
  duration: number;
  driver: string;
  checked: boolean;
  processes: { id: number; command: string[]; ended: boolean; server?: number }[];
  devices: { process: number; id: number; name: string }[];
  threads: { process: number; id: number; name: string }[];
  streams: { process: number; id: number; device: number; default: boolean }[];
  functions: string[];
  sites: { place: string; function: string }[]; // where calls come from: "load.c:30", "load"
  calls: Record<"thread" | "function" | "start" | "end" | "code" | "blocked" | "stream" | "awaited" | "site", number[]>;
  tasks: Record<
    | "kind" | "direction" | "memory" | "stream" | "device" | "number" | "thread" | "call"
    | "segments" | "bytes" | "submit" | "start" | "end" | "code",
    number[]
  > & { failed: (boolean | number)[]; kernel?: string[]; model?: number[] };
  models: ({ process: number; id: number; tasks: number; kernel: string[]; piece?: number[] } & Record<"kind" | "direction" | "stream" | "segments" | "bytes" | "after", number[]>)[];
  parts?: Record<"task" | "model" | "first" | "count" | "start" | "end", number[]>; // pieces of models that ran in tasks, by task
  edges: { from: number[]; to: number[] };
  cores?: Record<"task" | "core" | "first" | "blocks" | "start" | "end", number[]> & { kernel: string[] }; // what cores did of tasks
  ranges: Record<"kind" | "thread" | "start" | "end" | "task", number[]> & { text: string[] };
  findings: Finding[];
  notes: string[];
  stats: Stat[];
  advice: Advice[];
  strings: { kinds: string[]; directions: string[]; memories: string[] };
}

export interface Finding {
  rule: string;
  severity: string;
  text: string;
  time: number;
  tasks: number[];
  thread: number;
  places: { role: string; at: string }[]; // lines of the program
  remedy: string; // what to do
  report: string;
}

export interface Stat {
  function: number;
  count: number;
  total: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
  errors: number;
}

export interface Advice {
  rule: string;
  title: string;
  text: string;
  saves: number;
  tasks: number[];
  calls: number[];
  numbers: { label: string; value: string }[];
  lines: string[]; // of the program
}

// The numbers of internal/timeline.
export const Kind = { Copy: 0, Copy2D: 1, Batch: 2, Descriptor: 3, Fill: 4, Record: 5, Wait: 6, Function: 7, Other: 8, NotifyRecord: 9, NotifyWait: 10, ValueWrite: 11, ValueWait: 12, Mark: 16, Kernel: 17, Model: 18 } as const;
export const RangeKind = { Moment: 0, Nested: 1, Free: 2 } as const;

/** Whether tasks of a kind hold their stream up until another one has signalled, and whether they signal. */
export const waits = (kind: number): boolean => kind === Kind.Wait || kind === Kind.NotifyWait || kind === Kind.ValueWait;
export const records = (kind: number): boolean => kind === Kind.Record || kind === Kind.NotifyRecord || kind === Kind.ValueWrite;
export const Direction = { None: 0, H2D: 1, D2H: 2, D2D: 3, H2H: 4, Peer: 5, Both: 6 } as const;
export const Memory = { None: 0, Pinned: 1, Registered: 2, Pageable: 3, Mixed: 4 } as const;

/** read takes the run out of its script element: JSON, or JSON that is compressed because it is large. */
export async function read(): Promise<Data | null> {
  const element = document.getElementById("data");
  const text = element?.textContent?.trim() ?? "";
  if (text === "" || text === "null") return null;
  let data: Data;
  if (element!.getAttribute("type") === "application/gzip;base64") {
    const packed = atob(text);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    data = (await new Response(plain).json()) as Data;
  } else {
    data = JSON.parse(text) as Data;
  }
  element!.textContent = ""; // the text of a long run is large, and nobody needs it again
  return complete(data);
}

/** complete puts empty lists where Go wrote null for a nil slice. */
function complete(data: Data): Data {
  for (const key of ["program", "processes", "devices", "threads", "streams", "functions", "sites", "findings", "notes", "stats", "advice", "models"] as const) {
    (data as unknown as Record<string, unknown>)[key] ??= [];
  }
  for (const a of data.advice) {
    a.tasks ??= [];
    a.calls ??= [];
    a.numbers ??= [];
    a.lines ??= [];
  }
  for (const f of data.findings) {
    f.tasks ??= [];
    f.places ??= [];
  }
  for (const table of [data.calls, data.tasks, data.edges, data.ranges] as unknown as Record<string, unknown>[]) {
    for (const column of Object.keys(table)) table[column] ??= [];
  }
  return data;
}
