/// Docs/Map.md leads from a behaviour to its source and its test: what it names exists, and it names every source file.
enum MapFence {
    static let mapPath = "Docs/Map.md"

    static func findings(in tree: SourceTree) -> [Finding] {
        let sources = tree.swiftFiles(in: "Sources").map(\.path)
        guard let map = tree.files.first(where: { $0.path == mapPath }) else {
            let message = "is missing; it has to name:\n" + sources.joined(separator: "\n")
            return [Finding(path: mapPath, line: nil, message: message)]
        }
        let named = paths(in: map)
        let gone = named.filter { !tree.exists($0.path) }.map { name in
            Finding(path: mapPath, line: name.line, message: "names \(name.path), which does not exist")
        }
        let unnamed = Set(sources).subtracting(named.map(\.path)).sorted()
        guard !unnamed.isEmpty else { return gone }
        let message = "does not name \(unnamed.count) source files:\n" + unnamed.joined(separator: "\n")
        return gone + [Finding(path: mapPath, line: nil, message: message)]
    }

    /// Everything that looks like a path from the root, wherever it stands: in a table, in code, in a link.
    static func paths(in map: SourceFile) -> [(path: String, line: Int)] {
        let pattern = #/(?:Sources|Tests|Docs|Keys|\.ci)/[\w.+/-]*\w/#
        return map.lines.enumerated().flatMap { index, line in
            line.matches(of: pattern).map { (String($0.0), index + 1) }
        }
    }
}
