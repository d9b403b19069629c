/// A program may import several modules of the package: no two of their public types have one name, which it could not
/// tell apart.
enum NameFence {
    static func findings(in tree: SourceTree) -> [Finding] {
        let declaration = #/public (?:final )?(?:struct|class|enum|actor|protocol|typealias) (\w+).*/#
        var first: [Substring: String] = [:]
        return tree.swiftFiles(in: "Sources").flatMap { file in
            file.codeLines.enumerated().compactMap { index, line -> Finding? in
                // Types of other types are indented.
                guard line.hasPrefix("public "), let name = line.wholeMatch(of: declaration)?.1 else { return nil }
                guard let other = first.updateValue(file.path, forKey: name) else { return nil }
                return Finding(path: file.path, line: index + 1, message: "\(other) has a public type \(name), too")
            }
        }
    }
}
