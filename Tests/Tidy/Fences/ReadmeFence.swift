/// Each target has a README of about ten lines: what it is, where to begin, where its tests are. The files that they
/// and the documents name exist.
enum ReadmeFence {
    private static let mostLines = 25

    static func findings(in tree: SourceTree) -> [Finding] {
        let sources = tree.swiftFiles(in: "Sources").map(\.path)
        let targets = Set(sources.compactMap { $0.split(separator: "/").dropFirst().first.map(String.init) })
        return targets.sorted().flatMap { readme(of: $0, in: tree) }
    }

    private static func readme(of target: String, in tree: SourceTree) -> [Finding] {
        let path = "Sources/\(target)/README.md"
        guard let file = tree.files.first(where: { $0.path == path }) else {
            return [Finding(path: path, line: nil, message: "is missing: say what the target is for")]
        }
        let tooLong = file.lines.count > mostLines
        let length = tooLong ? [Finding(path: path, line: nil, message: "has more than \(mostLines) lines")] : []
        return length + missing(in: file, folder: "Sources/\(target)/", tree)
    }

    /// Paths in backticks are relative to the target, those of links to the root, behind `../../`.
    private static func missing(in file: SourceFile, folder: String, _ tree: SourceTree) -> [Finding] {
        let names = #/`([A-Z]\w*(?:/\w*)*(?:/|\.swift))`|\(\.\./\.\./([^)#]*)\)/#
        return file.lines.enumerated().flatMap { index, line in
            line.matches(of: names).compactMap { match in
                let path = match.2.map(String.init) ?? folder + (match.1.map(String.init) ?? "")
                if tree.exists(path) { return nil }
                return Finding(path: file.path, line: index + 1, message: "names \(path), which is not there")
            }
        }
    }
}
