// A pipeline to begin with: small, but with a person, a decision and a way back.

export const EXAMPLE = `digraph Greeting {
    graph [goal="Write a short greeting that a person has approved"]
    rankdir=LR

    start   [shape=Mdiamond, label="Start"]
    done    [shape=Msquare, label="Done"]

    draft   [label="Draft a greeting", max_retries=1, prompt="Write one friendly sentence for: $goal"]
    check   [shape=parallelogram, label="Count the words", tool_command="echo checked"]
    review  [shape=hexagon, label="Is the greeting good?"]
    publish [label="Polish it", prompt="Improve the greeting without making it longer."]

    start -> draft -> check -> review
    review -> publish [label="[A] Approve"]
    review -> draft   [label="[R] Rewrite"]
    publish -> done
}
`;
