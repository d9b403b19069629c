/// The tests that `make check` leaves out: each suite and each test that its script names exists.
///
/// The other direction, a test that is missing there, is found when `make check` runs it (Tests/Support/TestHarness).
enum CheckFence {
    static let scriptPath = ".ci/check"

    static func findings(in tree: SourceTree) -> [Finding] {
        guard let script = tree.files.first(where: { $0.path == scriptPath }) else {
            return [Finding(path: scriptPath, line: nil, message: "is missing")]
        }
        // 'Target.Suite', 'Target.Suite/test' or 'Target.Suite/(test|test)'
        let entry = #/\s*'(\w+)Tests\.(\w+)(?:/\(?([\w|]+)\)?)?'/#
        return script.lines.enumerated().flatMap { index, line -> [Finding] in
            guard let match = line.wholeMatch(of: entry) else { return [] }
            let suite = tree.swiftFiles(in: "Tests/Unit/\(match.1)").filter { file in
                file.codeLines.contains { words(of: $0).contains(["struct", match.2]) }
            }
            let tests = match.3?.split(separator: "|") ?? []
            let gone = tests.filter { test in
                !suite.contains { $0.codeLines.contains { words(of: $0).contains(["func", test]) } }
            }
            let names = suite.isEmpty ? ["\(match.1)Tests.\(match.2)"] : gone.map { "\(match.2)/\($0)" }
            return names.map { name in
                Finding(path: scriptPath, line: index + 1, message: "leaves out \(name), which does not exist")
            }
        }
    }

    private static func words(of line: String) -> [Substring] {
        line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
    }
}
