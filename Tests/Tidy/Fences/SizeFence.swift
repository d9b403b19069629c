/// Files and functions stay small enough to be read at once.
enum SizeFence {
    static let mostLinesInFile = 600
    static let mostLinesInFunction = 50

    static func findings(in tree: SourceTree) -> [Finding] {
        tree.swiftFiles(in: "Sources", "Tests").flatMap { file in
            var findings = functionFindings(in: file)
            if file.lines.count > mostLinesInFile {
                let message = "has \(file.lines.count) lines; \(mostLinesInFile) are the most: split it by concept"
                findings.append(Finding(path: file.path, line: nil, message: message))
            }
            return findings
        }
    }

    private static func functionFindings(in file: SourceFile) -> [Finding] {
        FunctionScanner.functions(in: file.codeLines).compactMap { function in
            guard function.lineCount > mostLinesInFunction else { return nil }
            let message = "\(function.keyword) of \(function.lineCount) lines; \(mostLinesInFunction) are the most"
            return Finding(path: file.path, line: function.line, message: message)
        }
    }
}
