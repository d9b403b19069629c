/// Forms that may not be written: unfinished work, traps, unexplained promises to the compiler, machine paths, sleeps.
enum WordFence {
    static func unfinished(in tree: SourceTree) -> [Finding] {
        let pattern = #/\b(TODO|FIXME|XXX)\b/#
        return findings(in: tree.files.filter { $0.path.hasPrefix("Sources/") }, of: \.lines) { line in
            line.firstMatch(of: pattern).map { "\($0.1): finish it, or write down why it is left out" }
        }
    }

    /// Misuse that only a mistake in the calling program can cause ends it here, and nowhere else.
    private static let theOneTrap = "Sources/CipherDatabase/Connection/ProgrammerError.swift"

    static func traps(in tree: SourceTree) -> [Finding] {
        let sources = tree.swiftFiles(in: "Sources").filter { $0.path != theOneTrap }
        let named = #/\b(?:fatalError\b|try!|as!)/#
        // `value!`, `call()!`, `list[0]!`, `Type!`; an operator such as `!=` or a negation is not meant.
        let forceUnwrap = #/[\w)\]}>"`?]!(?!=)/#
        return findings(in: sources, of: \.codeLines) { line in
            if let trap = line.firstMatch(of: named) {
                return "\(trap.0) ends the user's process: throw an error"
            }
            return line.contains(forceUnwrap) ? "force unwrap: throw an error or give a default" : nil
        }
    }

    /// `@unchecked Sendable`, `nonisolated(unsafe)` and `unowned(unsafe)` carry `// Safe because: ...` on their line, or in
    /// the comment that ends on the line before.
    static func unexplainedPromises(in tree: SourceTree) -> [Finding] {
        tree.swiftFiles(in: "Sources", "Tests").flatMap { file in
            file.codeLines.indices.compactMap { index in
                let code = file.codeLines[index]
                let isPromise = ["@unchecked", "nonisolated(unsafe)", "unowned(unsafe)"].contains { code.contains($0) }
                guard isPromise else { return nil }
                let comment = file.lines[..<index].reversed().prefix { line in
                    line.drop { $0 == " " }.hasPrefix("//")
                }
                let near = [file.lines[index]] + comment
                guard !near.contains(where: { $0.contains("// Safe because: ") }) else { return nil }
                let message = "a promise to the compiler without `// Safe because: ...`"
                return Finding(path: file.path, line: index + 1, message: message)
            }
        }
    }

    /// A function that is itself the value of a Mutex is wrapped once more by each access: the calls go through all of
    /// the wrappers, until the stack is full. It belongs in a type of its own.
    static func functionsInLocks(in tree: SourceTree) -> [Finding] {
        findings(in: tree.swiftFiles(in: "Sources", "Tests"), of: \.codeLines) { line in
            // The comparison of texts first: it is the quicker one, for all lines of all files.
            line.contains("Mutex<") && line.contains(#/\bMutex<[^<>=]*->/#)
                ? "a function as the value of a Mutex: put it in a struct, so that no access wraps it" : nil
        }
    }

    /// Swift offers no conversion from `Any` to `any Sendable`.
    private static let theOneBitCast = "Sources/CipherRecords/Records/EncodableRecord.swift"

    /// A value is taken for one of another type only at the border to C.
    static func bitCasts(in tree: SourceTree) -> [Finding] {
        let sources = tree.swiftFiles(in: "Sources").filter {
            $0.path != theOneBitCast && !$0.path.hasPrefix("Sources/CipherDatabase/SQLite/")
        }
        return findings(in: sources, of: \.codeLines) { line in
            ["unsafeBitCast", "unsafeDowncast"].first { line.contains($0) }.map { "\($0): cast, or carry the type" }
        }
    }

    /// Paths that exist on one machine only.
    static func machinePaths(in tree: SourceTree) -> [Finding] {
        // Written apart, so that this file does not find itself.
        let beginnings = [
            "/wor" + "k/", "/tmp/" + "cs", "/roo" + "t/", "/opt/" + "swift", "/hom" + "e/", "/User" + "s/",
        ]
        return findings(in: tree.files, of: \.lines) { line in
            beginnings.first { line.contains($0) }.map { "names a path of one machine: \($0)" }
        }
    }

    /// Tests wait on conditions with deadlines; only the helpers in Tests/Support may sleep between two looks.
    static func sleeps(in tree: SourceTree) -> [Finding] {
        let pattern = #/(\bu?sleep|\bnanosleep|\.sleep)\s*\(/#
        let tests = tree.swiftFiles(in: "Tests").filter { !$0.path.hasPrefix("Tests/Support/") }
        return findings(in: tests, of: \.codeLines) { line in
            line.contains(pattern) ? "sleeps: wait on a condition with a deadline (Tests/Support)" : nil
        }
    }

    private static func findings(
        in files: [SourceFile],
        of lines: (SourceFile) -> [String],
        check: (String) -> String?
    ) -> [Finding] {
        files.flatMap { file in
            lines(file).enumerated().compactMap { index, line in
                check(line).map { Finding(path: file.path, line: index + 1, message: $0) }
            }
        }
    }
}
