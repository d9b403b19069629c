import Foundation
import StoreCrypto

/// Keys/manifest.json lists every file of Keys with its hash, and nothing that looks like a real key stands elsewhere.
enum KeyFence {
    static let manifestPath = "Keys/manifest.json"

    /// The program or text that describes the listed files, or makes them.
    private static let unlisted = [manifestPath, "Keys/README.md"]
    private static let generators = "Keys/generators/"
    /// Examples, each of which a test verifies or a generator writes.
    private static let examples = "Docs/Formats/"

    /// Digests that standards print: FIPS 180-2, appendix B.1.
    private static let published: Set<String> = [
        "ba7816bf8f01cfea414140de5dae2223" + "b00361a396177a9cb410ff61f20015ad"
    ]

    private struct Manifest: Decodable {
        struct Entry: Decodable {
            var file: String
            var sha256: String
            var producer: String
            var expectation: String
        }

        var files: [Entry]
    }

    // MARK: The list

    /// Files that are not listed, listed files that do not exist, and files with another hash than the listed one.
    static func listing(in tree: SourceTree) -> [Finding] {
        let entries: [Manifest.Entry]
        do {
            let data = try Data(contentsOf: tree.root.appending(path: manifestPath))
            entries = try JSONDecoder().decode(Manifest.self, from: data).files
        } catch {
            return [Finding(path: manifestPath, line: nil, message: "its list of files cannot be read: \(error)")]
        }
        let listed = Dictionary(entries.map { ("Keys/" + $0.file, $0) }) { first, _ in first }
        let found = files(in: tree)
        let unknown = found.subtracting(listed.keys).sorted().map {
            Finding(
                path: $0, line: nil, message: "is not listed in \(manifestPath): run Keys/generators/make_manifest.py")
        }
        return unknown + listed.sorted { $0.key < $1.key }.compactMap { check($0.key, $0.value, in: tree) }
    }

    private static func check(_ path: String, _ entry: Manifest.Entry, in tree: SourceTree) -> Finding? {
        guard let data = try? Data(contentsOf: tree.root.appending(path: path)) else {
            return Finding(path: path, line: nil, message: "is listed in \(manifestPath), and does not exist")
        }
        guard (try? digest(of: data)) == entry.sha256 else {
            return Finding(path: path, line: nil, message: "has another hash than the listed one")
        }
        if entry.expectation.isEmpty { return Finding(path: path, line: nil, message: "is listed without expectation") }
        return tree.exists(generators + entry.producer)
            ? nil : Finding(path: path, line: nil, message: "its producer \(entry.producer) does not exist")
    }

    private static func digest(of data: Data) throws -> String {
        var digest = try ContentDigest()
        data.withUnsafeBytes { digest.update($0) }
        return try digest.finish().map { String(format: "%02x", $0) }.joined()
    }

    /// The files that must be listed.
    private static func files(in tree: SourceTree) -> Set<String> {
        let root = tree.root.appending(path: "Keys").path
        var found: Set<String> = []
        for name in FileManager.default.subpaths(atPath: root) ?? [] {
            let path = "Keys/" + name
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: root + "/" + name, isDirectory: &isDirectory),
                !isDirectory.boolValue, !unlisted.contains(path), !path.hasPrefix(generators)
            else { continue }
            found.insert(path)
        }
        return found
    }

    // MARK: Real keys

    /// Texts that look like a real key: PEM blocks anywhere, and 64 or more random hexadecimal digits that stand in no
    /// listed file of Keys.
    static func realKeys(in tree: SourceTree) -> [Finding] {
        let beginning = "-----" + "BEGIN"
        var findings: [Finding] = []
        var candidates: [(digits: String, place: Finding)] = []
        for file in tree.files where file.path != manifestPath {
            let isChecked = !isTestData(file.path) && !file.path.hasPrefix(examples)
            for (index, line) in file.lines.enumerated() {
                if line.contains(beginning) {
                    findings.append(
                        Finding(path: file.path, line: index + 1, message: "a PEM block: no real key belongs here"))
                }
                guard isChecked, line.utf8.count >= 64 else { continue }
                for digits in runs(of: line) where looksRandom(digits) && !published.contains(digits) {
                    let message = "looks like a real key: test keys stand in a listed file of Keys"
                    candidates.append((digits, Finding(path: file.path, line: index + 1, message: message)))
                }
            }
        }
        guard !candidates.isEmpty else { return findings }
        let known = listedTexts(tree)
        return findings
            + candidates.filter { candidate in !known.contains { $0.contains(candidate.digits) } }.map(\.place)
    }

    private static func isTestData(_ path: String) -> Bool { path.hasPrefix("Keys/") && !path.hasPrefix(generators) }

    private static func listedTexts(_ tree: SourceTree) -> [String] {
        let data = tree.files.filter { isTestData($0.path) && $0.path != manifestPath }
        return data.map { $0.lines.joined(separator: "\n").lowercased() }
    }

    private static func runs(of line: String) -> [String] {
        line.lowercased().split { !$0.isASCII || !$0.isHexDigit }.filter { $0.utf8.count >= 64 }.map(String.init)
    }

    /// Digits of random bytes: neither one byte again and again, nor bytes in steps.
    private static func looksRandom(_ digits: String) -> Bool {
        let values = digits.utf8.map { $0 < 0x3a ? $0 - 0x30 : $0 - 0x57 }
        let bytes = stride(from: 0, to: values.count - 1, by: 2).map { values[$0] << 4 | values[$0 + 1] }
        let steps = Set(zip(bytes, bytes.dropFirst()).map { $1 &- $0 })
        return Set(values).count >= 10 && steps.count > 3
    }
}
