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
        let files = tree.swiftFiles(in: "Tests/Unit").map { (path: $0.path, declared: declarations(in: $0)) }
        return script.lines.enumerated().flatMap { index, line -> [Finding] in
            guard let match = line.wholeMatch(of: entry) else { return [] }
            let suite = files.filter { file in
                file.path.hasPrefix("Tests/Unit/\(match.1)/") && file.declared.contains("struct \(match.2)")
            }
            let tests = match.3?.split(separator: "|") ?? []
            let gone = tests.filter { test in
                !suite.contains { $0.declared.contains("func \(test)") }
            }
            let names = suite.isEmpty ? ["\(match.1)Tests.\(match.2)"] : gone.map { "\(match.2)/\($0)" }
            return names.map { name in
                Finding(path: scriptPath, line: index + 1, message: "leaves out \(name), which does not exist")
            }
        }
    }

    /// The types and functions of a file, as `struct Name` and `func name`.
    private static func declarations(in file: SourceFile) -> Set<String> {
        var found: Set<String> = []
        for line in file.codeLines {
            let words = line.utf8.split { !isPartOfWord($0) }
            for (keyword, name) in zip(words, words.dropFirst())
            where keyword.elementsEqual("struct".utf8) || keyword.elementsEqual("func".utf8) {
                found.insert("\(Substring(keyword)) \(Substring(name))")
            }
        }
        return found
    }

    private static func isPartOfWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...0xff:
            true
        default: false
        }
    }
}
