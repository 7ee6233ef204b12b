import { constants } from "node:fs";
import { access, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { realClock } from "../../base/clock/real.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { interruptible } from "../../base/process/lifecycle.ts";
import type { ProgressOut } from "../../base/process/screen.ts";
import { CATALOGUE, catalogueJson, catalogueText } from "./catalogue.ts";
import { withEngineFile } from "./engine-file.ts";
import { SimulateProgress } from "./progress.ts";
import { type ReplayFlags, replaySettings } from "./replay-settings.ts";
import type { Study } from "./result.ts";
import { planSize, type SimulateCatalogue, type SimulateFlags, simulateSettings } from "./simulate-settings.ts";
import { runStudy, type StudyOptions, type StudyPlan } from "./study.ts";
import { planText, studyText } from "./study-text.ts";
import type { TraceSummary } from "./trace/trace-reader.ts";
import type { TraceFlags } from "./trace/trace-settings.ts";
import { traceSummaryText } from "./trace/trace-text.ts";

/** The outputs of the command. */
export interface SimulateStreams {
  /** Receives tables, or the study as JSON. */
  out(text: string): void;
  /** Receives the plan and the progress. */
  readonly progress: ProgressOut;
  /** Characters of the terminal for tables; undefined = the output is not a terminal. */
  readonly width: number | undefined;
}

/** The form of the results. */
export interface SimulateShape {
  /** Path of the report. */
  readonly html: string | undefined;
  /** The command line, for the report. */
  readonly command?: string | undefined;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** Exit status after a signal. */
const INTERRUPTED: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143 };

/** The names of workloads, policies and engines, with their sentences. */
export function simulateNames(json: boolean): string {
  return json ? `${JSON.stringify(catalogueJson(CATALOGUE), null, 2)}\n` : catalogueText(CATALOGUE);
}

/**
 * Runs the simulations of the command line and prints the results. A signal ends it with the runs that are finished.
 * @param names of workloads
 * @returns the exit status
 * @throws SluiceError for a faulty flag or configuration, before anything runs; SIMULATE_REPORT
 */
export async function runSimulate(
  names: readonly string[],
  flags: SimulateFlags,
  shape: SimulateShape,
  streams: SimulateStreams,
): Promise<number> {
  const plan = simulateSettings(names, flags, await catalogueFor(flags));
  if (shape.html !== undefined) await checkReportFile(shape.html);
  return runPlan(plan, undefined, shape, streams);
}

/**
 * Plays a trace to simulated servers and prints the results, as `runSimulate` does.
 * @param file path of the trace
 * @returns the exit status
 * @throws SluiceError for a faulty flag, configuration or trace, before anything runs; SIMULATE_REPORT
 */
export async function runTrace(
  file: string,
  flags: TraceFlags,
  shape: SimulateShape,
  streams: SimulateStreams,
): Promise<number> {
  const catalogue = await catalogueFor(flags);
  if (shape.html !== undefined) await checkReportFile(shape.html);
  const { traceSettings } = await import("./trace/trace-settings.ts");
  const { plan, summary } = await traceSettings(file, flags, catalogue);
  return runPlan(plan, summary, shape, streams);
}

/** The catalogue, with the engine of a file if the flag names one. */
async function catalogueFor({ engine }: Pick<SimulateFlags, "engine">): Promise<SimulateCatalogue> {
  return { ...CATALOGUE, presets: await withEngineFile(engine, CATALOGUE.presets) };
}

async function runPlan(
  planned: StudyPlan,
  trace: TraceSummary | undefined,
  { html, command, json, quiet }: SimulateShape,
  streams: SimulateStreams,
): Promise<number> {
  const plan = { ...planned, samples: html !== undefined };
  const size = planSize(plan);
  return interruptible(async (signal) => {
    const study = await watched(quiet ? undefined : streams.progress, (options) =>
      runStudy(plan, {
        ...options,
        signal,
        onChecked() {
          if (!quiet) streams.progress.write(`${planText(plan, size)}\n`);
        },
      }),
    );
    const partial = study.runs.length < size.runs;
    if (json) streams.out(`${JSON.stringify({ ...study, trace, partial })}\n`);
    else {
      if (trace !== undefined) streams.out(`${traceSummaryText(trace, streams.width)}\n`);
      streams.out(studyText(study, { planned: size.runs, width: streams.width }));
    }
    if (html !== undefined) await report(html, study, { command, quiet }, streams);
    return statusOf(signal);
  });
}

/**
 * Replays recordings with another configuration, and prints the differences.
 * @returns the exit status
 * @throws SluiceError for a faulty flag, configuration or file; SIMULATE_REPORT
 */
export async function runReplay(
  files: readonly string[],
  flags: ReplayFlags,
  { html, command, json, quiet }: SimulateShape,
  streams: SimulateStreams,
): Promise<number> {
  const { source, options: settings } = replaySettings(flags, await catalogueFor(flags));
  if (html !== undefined) await checkReportFile(html);
  const { replayRecorded } = await import("./replay/replay-recorded.ts");
  const { replayStudyText } = await import("./replay/replay-text.ts");
  return interruptible(async (signal) => {
    const replayed = await watched(quiet ? undefined : streams.progress, (options) =>
      replayRecorded(files, source, { ...settings, ...options, signal }),
    );
    const partial = signal.aborted;
    if (json) streams.out(`${JSON.stringify({ ...replayed, partial })}\n`);
    else {
      streams.out(replayStudyText(replayed, { width: streams.width }));
      if (partial) streams.out("\nPARTIAL: the replay ended before it had read and played all records.\n");
    }
    if (html !== undefined) {
      if (replayed.traffic !== undefined) await report(html, replayed.traffic.study, { command, quiet }, streams);
      else
        streams.progress.write(
          "no report: Sluice simulates only requests of an access log, and there is no access log\n",
        );
    }
    return statusOf(signal);
  });
}

async function report(
  file: string,
  study: Study,
  { command, quiet }: Omit<SimulateShape, "html" | "json">,
  { progress }: SimulateStreams,
): Promise<void> {
  await writeReport(file, study, command);
  if (!quiet) progress.write(`report: ${file}\n`);
}

function statusOf({ aborted, reason }: AbortSignal): number {
  return aborted ? (INTERRUPTED[String(reason)] ?? 1) : 0;
}

interface Watching extends StudyOptions {
  onRead?(items: number): void;
}

/** Shows the progress of `work` until it ends. */
async function watched<T>(out: ProgressOut | undefined, work: (options: Watching) => Promise<T>): Promise<T> {
  if (out === undefined) return work({});
  const progress = new SimulateProgress(out, realClock);
  try {
    return await work({ onProgress: (now) => progress.show(now), onRead: (items) => progress.showRead(items) });
  } finally {
    progress.end();
  }
}

/**
 * A study takes long, so an unwritable report file must fail before it begins.
 * @throws SluiceError FLAG_VALUE
 */
export async function checkReportFile(file: string): Promise<void> {
  const folder = dirname(resolve(file));
  try {
    await access(folder, constants.W_OK);
  } catch (cause) {
    const reason = isMissing(cause) ? `there is no folder ${folder}: create it` : messageOf(cause);
    throw new SluiceError("FLAG_VALUE", `--html ${file}: the report cannot be written: ${reason}`, { cause });
  }
  if ((await stat(file).catch(() => undefined))?.isDirectory())
    throw new SluiceError(
      "FLAG_VALUE",
      `--html ${file} is a directory: give a file in it, such as ${join(file, "report.html")}`,
    );
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}

/** @param command the command line that repeats this study @throws SluiceError SIMULATE_REPORT */
export async function writeReport(file: string, study: Study, command: string | undefined): Promise<void> {
  const { renderReport } = await import("./report/report.ts");
  const page = await renderReport(study, { command });
  try {
    await writeFile(file, page);
  } catch (cause) {
    throw new SluiceError("SIMULATE_REPORT", `the report cannot be written: ${messageOf(cause)}`, { cause });
  }
}
