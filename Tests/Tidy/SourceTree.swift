import Foundation

/// One text file of the repository, read once.
struct SourceFile: Sendable {
    /// Relative to the root, with forward slashes: `Sources/StoreCrypto/Random.swift`.
    let path: String
    /// The lines as they stand in the file.
    let lines: [String]
    /// The same lines without comments and without what is inside string literals; empty for files that are not Swift.
    let codeLines: [String]

    init(path: String, text: String) {
        self.path = path
        lines = SourceFile.split(text)
        codeLines = path.hasSuffix(".swift") ? SourceFile.split(SwiftCode.strip(text)) : []
    }

    /// A final newline ends the last line; it does not begin another one.
    private static func split(_ text: String) -> [String] {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        return lines
    }
}

/// The files under a root that the fences look at. The root is a parameter so that a test can plant a violation in a
/// temporary tree.
struct SourceTree: Sendable {
    let root: URL
    let files: [SourceFile]

    /// Names of folders that hold nothing of ours.
    private static let skippedFolders: Set<String> = [".build", ".git", ".setup", ".swiftpm"]
    private static let textSuffixes = [".swift", ".c", ".h", ".md", ".py", ".sh", ".json", ".modulemap"]
    private static let scripts: Set<String> = [
        "Makefile", ".ci/bare-root", ".ci/check", ".ci/conformance", ".ci/docs", ".ci/install", ".ci/readme", ".ci/run",
        ".ci/sanitized",
        ".ci/setup", ".ci/test",
    ]

    init(root: URL) throws {
        self.root = root
        var files: [SourceFile] = []
        for path in try Self.paths(under: root) where Self.isText(path) {
            let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
            files.append(SourceFile(path: path, text: text))
        }
        self.files = files
    }

    func swiftFiles(in folders: String...) -> [SourceFile] {
        files.filter { file in
            file.path.hasSuffix(".swift") && folders.contains { file.path.hasPrefix($0 + "/") }
        }
    }

    func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    private static func isText(_ path: String) -> Bool {
        scripts.contains(path) || textSuffixes.contains { path.hasSuffix($0) }
    }

    private static func paths(under root: URL) throws -> [String] {
        var found: [String] = []
        var pending = [""]
        while let folder = pending.popLast() {
            for name in try FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path) {
                let path = folder.isEmpty ? name : folder + "/" + name
                var isDirectory: ObjCBool = false
                let full = root.appending(path: path).path
                // A link that leads nowhere, or a file that has just gone, holds no text of ours.
                guard FileManager.default.fileExists(atPath: full, isDirectory: &isDirectory) else { continue }
                if !isDirectory.boolValue {
                    found.append(path)
                } else if !skippedFolders.contains(name) {
                    pending.append(path)
                }
            }
        }
        return found.sorted()
    }
}

/// Something that a fence does not allow, and where.
struct Finding: Equatable, Sendable, CustomStringConvertible {
    let path: String
    /// Counted from 1; nil when the whole file is meant.
    let line: Int?
    let message: String

    var description: String {
        line.map { "\(path):\($0): \(message)" } ?? "\(path): \(message)"
    }
}
