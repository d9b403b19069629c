/// Docs/Testing.md names tests, scripts and targets of the Makefile that exist: its table of promises depends on them.
enum TestingFence {
    static let documentPath = "Docs/Testing.md"

    static func findings(in tree: SourceTree) -> [Finding] {
        guard let document = tree.files.first(where: { $0.path == documentPath }) else {
            return [Finding(path: documentPath, line: nil, message: "is missing")]
        }
        let makefile = tree.files.first { $0.path == "Makefile" }?.lines ?? []
        let gone = paths(in: document).filter { !tree.exists($0.path) }.map { ($0.path, $0.line) }
        let unknown = targets(in: document).filter { target, _ in !makefile.contains { $0.hasPrefix(target + ":") } }
        return (gone + unknown.map { ("make " + $0, $1) }).map { name, line in
            Finding(path: documentPath, line: line, message: "names \(name), which does not exist")
        }
    }

    /// Everything that looks like a path from the root, wherever it stands: in a table, in code, in a link.
    private static func paths(in document: SourceFile) -> [(path: String, line: Int)] {
        let pattern = #/(?:Sources|Tests|Docs|Keys|\.ci)/[\w.+/-]*\w/#
        return document.lines.enumerated().flatMap { index, line in
            line.matches(of: pattern).map { (String($0.0), index + 1) }
        }
    }

    private static func targets(in document: SourceFile) -> [(target: String, line: Int)] {
        document.lines.enumerated().flatMap { index, line in
            line.matches(of: #/`make ([a-z-]+)/#).map { (String($0.1), index + 1) }
        }
    }
}
