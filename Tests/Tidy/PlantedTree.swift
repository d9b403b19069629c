import Foundation

/// A temporary tree with the given files, in which a test plants what a fence must find; removed with the value.
final class PlantedTree {
    let tree: SourceTree
    private let root: URL

    init(_ files: [String: String]) throws {
        root = FileManager.default.temporaryDirectory.appending(path: "tidy-\(UUID().uuidString)")
        for (path, text) in files {
            let url = root.appending(path: path)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: url)
        }
        tree = try SourceTree(root: root)
    }

    deinit {
        try? FileManager.default.removeItem(at: root)
    }

    /// The findings of a fence in files planted under the given paths, as `path:line`.
    static func places(_ files: [String: String], _ fence: (SourceTree) -> [Finding]) throws -> [String] {
        let planted = try PlantedTree(files)
        return fence(planted.tree).map { finding in
            finding.line.map { "\(finding.path):\($0)" } ?? finding.path
        }
    }
}
