import { behindText, keepsUp, type StudiedPolicy, type Study } from "../result.ts";
import { advantage, E2E_P90, EQUAL_SHARE, formatted, standing, THROUGHPUT, TTFT_P90 } from "./figures.ts";
import { Scene, StudyIndex } from "./study-index.ts";

/** The result of a study for one workload, in plain sentences. */
export interface PolicyVerdict {
  readonly workload: string;
  /** The best policies at the top rate. */
  readonly headline: string;
  /** The subject policy compared with each other policy at the top rate. */
  readonly comparisons: readonly string[];
  /** The policies that do not keep up at the top rate. */
  readonly caution?: string | undefined;
  /** The subject policy over all rates; absent with one rate, or with one policy. */
  readonly ladder?: string | undefined;
}

/** If rejections differ by a percentage point or more, times alone mislead. */
function rejections(scene: Scene, ours: string, theirs: string): string {
  const [a, b] = [scene.rejected(ours), scene.rejected(theirs)];
  if (!(Math.abs(a - b) >= 0.01)) return "";
  const share = (part: number): string => (part === 0 ? "none" : formatted(part, "share"));
  return ` Rejected: ${share(a)} of the requests under ${ours}, ${share(b)} under ${theirs}.`;
}

function throughput(scene: Scene, ours: string, theirs: string): string {
  const stands = standing(scene.median(ours, THROUGHPUT), scene.median(theirs, THROUGHPUT), "more");
  if (stands === undefined) return "";
  if (stands.equal)
    return ` Output tokens/s are the same within ${EQUAL_SHARE} (${scene.shown(ours, THROUGHPUT)} and ${scene.shown(theirs, THROUGHPUT)}).`;
  const [one, of] = stands.ahead
    ? [ours, `${scene.shown(ours, THROUGHPUT)} against ${scene.shown(theirs, THROUGHPUT)}`]
    : [theirs, `${scene.shown(theirs, THROUGHPUT)} against ${scene.shown(ours, THROUGHPUT)}`];
  return ` ${one} makes ${advantage(stands.factor)} more output tokens/s (${of}).`;
}

/** A note when whole answers rank the policies differently from first tokens. */
function wholeAnswers(scene: Scene, ours: string, theirs: string, ttftAhead: boolean): string {
  const stands = standing(scene.median(ours, E2E_P90), scene.median(theirs, E2E_P90), "less");
  if (stands === undefined || stands.equal || stands.ahead === ttftAhead) return "";
  const [better, worse] = stands.ahead ? [ours, theirs] : [theirs, ours];
  const figures = `${scene.shown(better, E2E_P90)} against ${scene.shown(worse, E2E_P90)}`;
  return ` But e2e p90 is ${advantage(stands.factor)} better under ${better} (${figures}).`;
}

function comparison(scene: Scene, ours: string, theirs: string): string {
  const silences = [scene.silence(ours), scene.silence(theirs)].filter((text) => text !== undefined);
  if (silences.length > 0) return `${silences.join(", and ")}: nothing to compare.`;
  const [a, b] = [scene.shown(ours, TTFT_P90), scene.shown(theirs, TTFT_P90)];
  const rest = throughput(scene, ours, theirs) + rejections(scene, ours, theirs);
  const stands = standing(scene.median(ours, TTFT_P90), scene.median(theirs, TTFT_P90), "less");
  if (stands === undefined) return `At ${scene.at} TTFT p90 is ${a} under ${ours} and ${b} under ${theirs}.${rest}`;
  if (stands.equal)
    return `At ${scene.at} ${ours} and ${theirs} are within ${EQUAL_SHARE} of each other: TTFT p90 ${a} and ${b}.${rest}`;
  const by = advantage(stands.factor);
  const answers = wholeAnswers(scene, ours, theirs, stands.ahead);
  return stands.ahead
    ? `At ${scene.at} ${ours}'s TTFT p90 is ${by} better than ${theirs}'s (${a} against ${b}, ${scene.seeds(ours, theirs, TTFT_P90)}).${answers}${rest}`
    : `${theirs} is ${by} better here: at ${scene.at} its TTFT p90 is ${b} against ${ours}'s ${a} (${scene.seeds(theirs, ours, TTFT_P90)}).${answers}${rest}`;
}

function headline(scene: Scene, policies: readonly StudiedPolicy[]): string {
  const [best, next] = scene.ranked(policies);
  if (best === undefined) return `No policy has a TTFT p90 at ${scene.at}.`;
  const figure = scene.shown(best, TTFT_P90);
  if (next === undefined) return `At ${scene.at} TTFT p90 is ${figure} under ${best}.`;
  const rejected = scene.rejected(best);
  const caveat = rejected >= 0.01 ? ` It rejected ${formatted(rejected, "share")} of the requests.` : "";
  const stands = standing(scene.median(best, TTFT_P90), scene.median(next, TTFT_P90), "less");
  const lead =
    stands === undefined || stands.equal
      ? `with ${next} within ${EQUAL_SHARE} of it (${scene.shown(next, TTFT_P90)})`
      : `${advantage(stands.factor)} better than ${next} (${scene.shown(next, TTFT_P90)}, ${scene.seeds(best, next, TTFT_P90)})`;
  return `At ${scene.at} ${best} has the best TTFT p90: ${figure}, ${lead}.${caveat}`;
}

/** A sentence about how far behind, such as `least-active is 4 % better at 3 requests/s`. */
function lag({ factor, leader }: { factor: number; leader: string }, ours: string, where: string): string {
  return Number.isFinite(factor)
    ? `${leader} is ${advantage(factor)} better ${where}`
    : `${ours} has no TTFT p90 ${where}, ${leader} has`;
}

function ladder(scenes: readonly Scene[], ours: string, policies: readonly StudiedPolicy[]): string | undefined {
  const compared = scenes.filter((scene) => scene.runs(ours).length > 0 && scene.ranked(policies).length > 0);
  if (compared.length === 0) return undefined;
  const lags = compared.flatMap((scene) => {
    const behind = scene.behind(ours, policies);
    return behind === undefined ? [] : [{ ...behind, at: scene.at }];
  });
  const best = `${ours} has the best TTFT p90, or is within ${EQUAL_SHARE} of it, at ${compared.length - lags.length} of ${compared.length} rates.`;
  if (lags.length === 0) return best;
  const worst = lags.reduce((most, one) => (one.factor > most.factor ? one : most));
  return `${best} Furthest behind: ${lag(worst, ours, `at ${worst.at}`)}.`;
}

/** The subject of the verdicts: the policy `default` if the study has it, else the last policy, as the simplest come first. */
export function subjectOf({ policies }: Study): string | undefined {
  return (policies.find(({ name }) => name === "default") ?? policies.at(-1))?.name;
}

/**
 * The verdicts from the medians over seeds for each workload. One policy, see `subjectOf`, is compared with every other one. "N
 * % better" means that the worse figure is N % above the better one.
 */
export function verdicts(study: Study): PolicyVerdict[] {
  const index = new StudyIndex(study);
  const ours = subjectOf(study);
  return study.workloads.map((workload): PolicyVerdict => {
    const top = index.topRate(workload);
    if (ours === undefined || top === undefined)
      return { workload: workload.name, headline: "Nothing was run.", comparisons: [] };
    const others = study.policies.filter(({ name }) => name !== ours);
    const scene = new Scene(index, workload, top);
    const rates = index.rates(workload);
    const scenes = rates.map((rate) => new Scene(index, workload, rate));
    const late = study.policies
      .map(({ name }) => name)
      .filter((name) => !keepsUp(scene.median(name, TTFT_P90), workload.durationMs));
    return {
      workload: workload.name,
      headline: headline(scene, study.policies),
      comparisons: others.map(({ name }) => comparison(scene, ours, name)),
      caution:
        others.length > 0 ? behindText(late, scene.at, Math.min(...rates) < top, "a ratio to others") : undefined,
      ladder: rates.length > 1 && others.length > 0 ? ladder(scenes, ours, study.policies) : undefined,
    };
  });
}

/** The same policy over all workloads, each at its top rate; undefined when there is no other policy. */
export function overall(study: Study): string | undefined {
  const index = new StudyIndex(study);
  const ours = subjectOf(study);
  if (ours === undefined || study.policies.length < 2) return undefined;
  const lags: string[] = [];
  let compared = 0;
  for (const workload of study.workloads) {
    const top = index.topRate(workload);
    const scene = top === undefined ? undefined : new Scene(index, workload, top);
    if (scene === undefined || scene.runs(ours).length === 0 || scene.ranked(study.policies).length === 0) continue;
    compared++;
    const behind = scene.behind(ours, study.policies);
    if (behind !== undefined) lags.push(lag(behind, ours, `on ${workload.name}`));
  }
  if (compared === 0) return undefined;
  const where = compared === 1 ? "workload" : "workloads";
  const best = `At the top rates ${ours} has the best TTFT p90, or is within ${EQUAL_SHARE} of it, on ${compared - lags.length} of ${compared} ${where}.`;
  return lags.length === 0 ? best : `${best} Where it is not: ${lags.join("; ")}.`;
}
