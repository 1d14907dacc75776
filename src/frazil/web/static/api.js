// Questions to the server.

// One repository among several has its name in the path of its pages.
export const BASE = location.pathname.match(/^\/repo\/[^/]+/)?.[0] ?? "";

export class Refused extends Error {
  constructor(message, kind, status) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

export function address(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `${BASE}/api/${path}${query ? `?${query}` : ""}`;
}

export async function ask(path, parameters = {}, signal = undefined) {
  let answer;
  try {
    answer = await fetch(address(path, parameters), { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is `frazil serve` still running?", "offline", 0);
  }
  const value = await answer.json();
  if (!answer.ok) throw new Refused(value.error, value.kind, answer.status);
  return value;
}
