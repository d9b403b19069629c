/// A reader finds the test of a behaviour by its name: no two suites have one name, neither in code nor as a title, no two
/// tests have one title, and each folder of Tests says what its tests show.
enum SuiteFence {
    private static let mostLines = 15
    /// The first bytes of lines that may begin a suite: `@Suite`, `struct`, `final class`, `class`, `enum`, `actor`.
    private static let starts = Set("@sfcea".utf8)

    static func findings(in tree: SourceTree) -> [Finding] {
        twice(in: tree) + titles(in: tree) + readmes(in: tree)
    }

    private static func twice(in tree: SourceTree) -> [Finding] {
        var first: [Substring: String] = [:]
        return tree.swiftFiles(in: "Tests").flatMap { file in
            zip(file.lines, file.codeLines).enumerated().flatMap { index, texts -> [Finding] in
                // Cheaper than a search in each line.
                guard let start = texts.1.utf8.first(where: { $0 != UInt8(ascii: " ") }), starts.contains(start) else {
                    return []
                }
                // The title is in a string literal, which the code lines do not have.
                let title = texts.1.contains("@Suite") ? texts.0.firstMatch(of: #/@Suite\("([^"]+)"/#)?.1 : nil
                let type = texts.1.firstMatch(of: #/\b(?:struct|class|enum|actor) (\w+Tests)\b/#)?.1
                return [title, type].compactMap { $0 }.compactMap { name in
                    guard let other = first.updateValue(file.path, forKey: name) else { return nil }
                    first[name] = other
                    return Finding(path: file.path, line: index + 1, message: "\(other) has a suite \(name), too")
                }
            }
        }
    }

    /// Tests of one title. A title may begin on the line after `@Test(`.
    private static func titles(in tree: SourceTree) -> [Finding] {
        var first: [Substring: String] = [:]
        return tree.swiftFiles(in: "Tests").flatMap { file in
            file.codeLines.enumerated().compactMap { index, code in
                guard code.contains("@Test("), let begin = file.lines[index].range(of: "@Test(") else { return nil }
                let rest = file.lines[index][begin.upperBound...]
                let line = rest.isEmpty && index + 1 < file.lines.count ? file.lines[index + 1][...] : rest
                guard let title = line.prefixMatch(of: #/ *"([^"]+)"(?!")/#)?.1 else { return nil }
                guard let other = first.updateValue(file.path, forKey: title) else { return nil }
                return Finding(path: file.path, line: index + 1, message: "\(other) has a test \"\(title)\", too")
            }
        }
    }

    private static func readmes(in tree: SourceTree) -> [Finding] {
        let kinds = Set(tree.swiftFiles(in: "Tests").compactMap { $0.path.split(separator: "/").dropFirst().first })
        return kinds.sorted().compactMap { kind in
            let path = "Tests/\(kind)/README.md"
            guard let file = tree.files.first(where: { $0.path == path }) else {
                return Finding(path: path, line: nil, message: "is missing: say what these tests show")
            }
            guard file.lines.count > mostLines else { return nil }
            return Finding(path: path, line: nil, message: "has more than \(mostLines) lines")
        }
    }
}
