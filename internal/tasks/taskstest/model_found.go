package taskstest

// found are counterexamples that Model came upon, each by what was wrong.
var found = map[string][]Op{}
