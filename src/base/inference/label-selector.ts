import { SluiceError } from "./errors.ts";

/** Whether a set of labels matches a selector. */
export type LabelPredicate = (labels: Readonly<Record<string, string>>) => boolean;

const KEY = "(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const VALUE = "(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?";
const SET = new RegExp(String.raw`^(${KEY})\s+(in|notin)\s*\(([^()]*)\)$`);
const EQUALITY = new RegExp(String.raw`^(${KEY})\s*(==|=|!=)\s*(${VALUE})$`);
const EXISTENCE = new RegExp(String.raw`^(!?)\s*(${KEY})$`);
const WHOLE_VALUE = new RegExp(`^${VALUE}$`);

/** The most requirements of one selector. */
const MAX_REQUIREMENTS = 64;

/**
 * Reads a label selector as kubectl and `--endpoint-selector` take it: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`,
 * `a`, `!a`, comma separated. All requirements must hold (api-resources 3.1). As in Kubernetes, `!=` and `notin` hold without
 * the label.
 * @throws SluiceError LABEL_SELECTOR naming the invalid requirement
 */
export function parseLabelSelector(text: string): LabelPredicate {
  const parts = splitRequirements(text);
  if (parts.length === 0) throw refusal(text, "is empty; write for example app=vllm");
  if (parts.length > MAX_REQUIREMENTS) throw refusal(text, `has more than ${MAX_REQUIREMENTS} requirements`);
  const requirements = parts.map((part) => requirementOf(part, text));
  return (labels) => requirements.every((holds) => holds(labels));
}

function requirementOf(part: string, text: string): LabelPredicate {
  const set = SET.exec(part);
  if (set !== null) {
    const [, key, operator, list] = set;
    const values = new Set(list!.split(",").map((value) => value.trim()));
    for (const value of values)
      if (!WHOLE_VALUE.test(value)) throw refusal(text, `${JSON.stringify(value)} cannot be the value of a label`);
    return operator === "in"
      ? (labels) => Object.hasOwn(labels, key!) && values.has(labels[key!]!)
      : (labels) => !Object.hasOwn(labels, key!) || !values.has(labels[key!]!);
  }
  const equality = EQUALITY.exec(part);
  if (equality !== null) {
    const [, key, operator, value] = equality;
    return operator === "!="
      ? (labels) => !Object.hasOwn(labels, key!) || labels[key!] !== value
      : (labels) => Object.hasOwn(labels, key!) && labels[key!] === value;
  }
  const existence = EXISTENCE.exec(part);
  if (existence === null)
    throw refusal(
      text,
      `${JSON.stringify(part)} is not one of key=value, key!=value, key in (a,b), key notin (a,b), key, !key`,
    );
  const [, not, key] = existence;
  return (labels) => Object.hasOwn(labels, key!) === (not === "");
}

/** Parts between the commas outside parentheses. */
function splitRequirements(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = "";
  for (const character of text) {
    if (character === "(") depth++;
    else if (character === ")") depth--;
    if (character === "," && depth === 0) {
      parts.push(part);
      part = "";
    } else part += character;
  }
  parts.push(part);
  return parts.map((one) => one.trim()).filter((one, _, all) => one !== "" || all.length > 1);
}

function refusal(text: string, problem: string): SluiceError {
  return new SluiceError("LABEL_SELECTOR", `the label selector ${JSON.stringify(text.slice(0, 200))} ${problem}`);
}
