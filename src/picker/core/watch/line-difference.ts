/** The most lines on each side that are compared one by one; else all of them count as changed. */
const MAX_COMPARED = 600;

/**
 * The lines in which two texts differ, each with `- ` (only in `before`) or `+ ` (only in `after`): the longest common
 * subsequence stays out.
 * @param shown returns the lines of a text as the difference shall show them, one for each line of the text
 */
export function lineDifference(
  before: string,
  after: string,
  shown: (text: string) => readonly string[] = (text) => text.split("\n"),
): string[] {
  let old = before.split("\n");
  let now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  old = old.slice(start);
  now = now.slice(start);
  const shownOld = shown(before).slice(start);
  const shownNow = shown(after).slice(start);
  while (old.length > 0 && now.length > 0 && old.at(-1) === now.at(-1)) {
    old.pop();
    now.pop();
  }
  if (old.length > MAX_COMPARED || now.length > MAX_COMPARED)
    return [...old.map((_, at) => `- ${shownOld[at]}`), ...now.map((_, at) => `+ ${shownNow[at]}`)];
  const width = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        old[i] === now[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const lines: string[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      i++;
      j++;
    } else if (j >= now.length || (i < old.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!))
      lines.push(`- ${shownOld[i++]}`);
    else lines.push(`+ ${shownNow[j++]}`);
  }
  return lines;
}
