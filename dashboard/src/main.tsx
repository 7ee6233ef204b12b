import { render } from "preact";
import { App } from "./app.tsx";
import { Connection } from "./feed/connection.ts";
import { Store } from "./feed/store.ts";
import { FeedContext } from "./feed/use-store.ts";
import { markPaper } from "./scheme.ts";

markPaper();
const store = new Store();
const connection = new Connection(store);
const home = document.getElementById("page");
if (home === null) throw new Error("the page has no element to draw into");
render(
  <FeedContext value={{ store, connection }}>
    <App />
  </FeedContext>,
  home,
);
connection.start();
