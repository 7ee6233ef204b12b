import { useEffect, useState } from "preact/hooks";

/** The place that the address names: `#/decisions/17?search=x`. Every place is a link that can be kept and sent. */
export interface Place {
  readonly view: string;
  /** The part behind the view; "" when there is none. */
  readonly id: string;
  readonly query: URLSearchParams;
}

/** Reads a place from the hash of an address; an unreadable one is the overview. */
export function placeOf(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view = "", ...rest] = path.split("/");
  return { view: view || "overview", id: decoded(rest.join("/")), query: new URLSearchParams(search) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The link to a place. */
export function linkTo(view: string, id = "", query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${view}${id === "" ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

/** Replaces the query of the present place, without a new step in the history. */
export function setQuery(name: string, value: string): void {
  const { view, id, query } = placeOf(location.hash);
  if (value === "") query.delete(name);
  else query.set(name, value);
  history.replaceState(null, "", linkTo(view, id, Object.fromEntries(query)));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The present place; the component draws again when it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const look = (): void => setPlace(placeOf(location.hash));
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  return place;
}
