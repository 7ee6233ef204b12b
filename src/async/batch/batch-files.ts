import { existsSync } from "node:fs";
import { SluiceError } from "../../base/inference/errors.ts";
import { BatchInput } from "./batch-input.ts";
import { BatchJournal } from "./batch-journal.ts";
import { BatchOutput } from "./batch-output.ts";
import { DONE } from "./line-index.ts";

export interface BatchFilesOptions {
  readonly inputPath: string;
  readonly outputPath: string;
  /** True: a bad line becomes an answer with an error. False: a file with a bad line is refused. */
  readonly skipInvalid: boolean;
  /** Awaited regularly while a file is read. @param share of the file that was read, 0..1 */
  breathe(what: string, share: number): Promise<void>;
}

/** The three files of a batch, open and checked to belong together. */
export interface BatchFiles {
  readonly input: BatchInput;
  readonly output: BatchOutput;
  readonly journal: BatchJournal;
  readonly inputSha256: string;
  /** Lines that get an answer. */
  readonly total: number;
  /** Lines that have an answer, and of these the lines that ended in an error. */
  readonly done: number;
  readonly failed: number;
  close(): void;
}

/** The id of the request of a line; the line's answer has the same id. */
export function batchRequestId(batch: string, line: number): string {
  return `batch-${batch}-${line}`;
}

/** The line that an id names; undefined for every other text. @param batch undefined = of any batch */
export function lineOf(id: string, batch?: string): number | undefined {
  const match = /^batch-([0-9a-f]{16})-([1-9]\d{0,8})$/.exec(id);
  return match === null || (batch !== undefined && match[1] !== batch) ? undefined : Number(match[2]);
}

/**
 * Opens the files of a batch, and marks the lines that have an answer as done. A lock keeps other processes off the batch until
 * the files are closed.
 * @throws SluiceError BATCH_INPUT, BATCH_INVALID, BATCH_TOO_LONG, BATCH_OUTPUT, BATCH_JOURNAL, BATCH_RUNNING, BATCH_CHANGED
 */
export async function openBatchFiles(options: BatchFilesOptions): Promise<BatchFiles> {
  const { inputPath, outputPath, skipInvalid, breathe } = options;
  const open: { close(): void }[] = [];
  const opened = <T extends { close(): void }>(part: T): T => {
    open.push(part);
    return part;
  };
  const close = (): void => {
    for (const part of open.splice(0).reverse()) part.close();
  };
  try {
    const input = opened(new BatchInput(inputPath));
    if (existsSync(outputPath) && input.isSame(outputPath))
      throw new SluiceError(
        "BATCH_OUTPUT",
        `${outputPath} is the input of the batch; name another file for the answers`,
      );
    const check = await input.check((share) => breathe(`checking ${inputPath}`, share));
    if (check.bad > 0 && !skipInvalid) throw invalid(inputPath, check.bad, check.problems);
    const journal = opened(new BatchJournal(`${outputPath}.journal`));
    if (journal.record !== undefined && journal.record.inputSha256 !== check.sha256)
      throw new SluiceError(
        "BATCH_CHANGED",
        `${inputPath} has changed since Sluice began ${outputPath}: give the original input, or another output file`,
      );
    const output = opened(new BatchOutput(outputPath));
    let done = 0;
    let failed = 0;
    await output.scan(
      ({ id, customId, succeeded }, number) => {
        const line = customId === null ? lineOf(id) : input.index.find(customId);
        if (line === undefined || line > input.index.count)
          throw foreign(
            outputPath,
            number,
            `answers ${JSON.stringify(customId ?? id)}, but ${inputPath} has no such line`,
          );
        if (input.index.state(line) === DONE)
          throw foreign(outputPath, number, `is a second answer to ${JSON.stringify(customId ?? id)}`);
        input.index.mark(line, DONE);
        done++;
        if (!succeeded) failed++;
      },
      (share) => breathe(`reading ${outputPath}`, share),
    );
    output.syncFolder();
    return {
      ...{ input, output, journal, done, failed, close },
      inputSha256: check.sha256,
      total: check.good + check.bad,
    };
  } catch (error) {
    close();
    throw error;
  }
}

function invalid(path: string, bad: number, problems: readonly string[]): SluiceError {
  const more = bad > problems.length ? [`and ${bad - problems.length} more`] : [];
  const lines = bad === 1 ? "a line that cannot be sent" : `${bad} lines that cannot be sent`;
  return new SluiceError(
    "BATCH_INVALID",
    [
      `${path} has ${lines}; nothing was submitted. Correct these lines, or add --skip-invalid to answer them with an error`,
      ...[...problems, ...more].map((problem) => `  ${problem}`),
    ].join("\n"),
  );
}

function foreign(path: string, number: number, problem: string): SluiceError {
  return new SluiceError("BATCH_OUTPUT", `${path}:${number} ${problem}: name another file for the answers`);
}
