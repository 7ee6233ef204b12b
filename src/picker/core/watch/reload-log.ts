/** One change of a followed file that was put in force or refused. */
export interface FileReload {
  /** Wall-clock milliseconds. */
  readonly at: number;
  /** The file. */
  readonly what: string;
  readonly result: "applied" | "refused";
  /** The problems of a refused one, in sentences; "" = none. */
  readonly problems: string;
  /** What changed: lines that begin with `- ` or `+ `, at most 200. */
  readonly difference: readonly string[];
}

/** The most reloads that are kept, and the most lines of a difference. */
const MAX_RELOADS = 8;
const MAX_LINES = 200;
const MAX_PROBLEMS = 8192;

/** The last changes of followed files, the newest first. */
export class ReloadLog {
  #reloads: readonly FileReload[] = [];

  list(): readonly FileReload[] {
    return this.#reloads;
  }

  add(reload: FileReload): void {
    const { problems, difference } = reload;
    const kept = { ...reload, problems: problems.slice(0, MAX_PROBLEMS), difference: difference.slice(0, MAX_LINES) };
    this.#reloads = [kept, ...this.#reloads].slice(0, MAX_RELOADS);
  }
}
