/** The colours of the page: those that the system asks for, or those of paper while it is printed. */
type Scheme = "light" | "dark" | "paper";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const PAPER = "paper";

export function schemeNow(): Scheme {
  if (document.documentElement.classList.contains(PAPER)) return PAPER;
  return DARK.matches ? "dark" : "light";
}

/** Marks the page while it is printed, for the style sheet and the plots. Call it before anything follows the scheme. */
export function markPaper(): void {
  addEventListener("beforeprint", () => document.documentElement.classList.add(PAPER));
  addEventListener("afterprint", () => document.documentElement.classList.remove(PAPER));
}

/** Calls `changed` when the scheme has changed. @returns ends this */
export function followScheme(changed: () => void): () => void {
  DARK.addEventListener("change", changed);
  addEventListener("beforeprint", changed);
  addEventListener("afterprint", changed);
  return () => {
    DARK.removeEventListener("change", changed);
    removeEventListener("beforeprint", changed);
    removeEventListener("afterprint", changed);
  };
}
