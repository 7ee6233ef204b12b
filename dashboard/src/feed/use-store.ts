import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Connection, Wish } from "./connection.ts";
import type { Store } from "./store.ts";

/** The store and the connection of the page. */
export const FeedContext = createContext<{ readonly store: Store; readonly connection: Connection } | undefined>(
  undefined,
);

function useFeed(): { readonly store: Store; readonly connection: Connection } {
  const feed = useContext(FeedContext);
  if (feed === undefined) throw new Error("there is no feed around this component");
  return feed;
}

/** The store; the component draws again in the frame after a change. */
export function useStore(): Store {
  const { store } = useFeed();
  const [, draw] = useState(0);
  useEffect(() => store.subscribe(() => draw((count) => count + 1)), [store]);
  return store;
}

/** Asks the stream for more topics while the component is there. */
export function useTopics(wish: Wish): void {
  const { connection } = useFeed();
  const text = JSON.stringify(wish);
  useEffect(() => {
    connection.want(JSON.parse(text) as Wish);
    return () => connection.want();
  }, [connection, text]);
}
