import CipherDatabase
import Foundation
import StorePlatform
import StoreSharing

/// The stores of a fleet file, with the settings of each.
package struct Fleet: Sendable {
    package struct Store: Hashable, Sendable {
        package let path: String
        package let settings: FleetSettings
    }

    /// A pattern of the file for which no store was found: nothing is left out without a word.
    package struct Gap: Hashable, Sendable {
        package let pattern: String
        package let why: String
    }

    package let file: FleetFile
    package let path: String
    package private(set) var stores: [Store] = []
    package private(set) var gaps: [Gap] = []

    /// The longest fleet file.
    private static let fileBytes = 1 << 20

    /// Reads a fleet file, and finds the stores.
    ///
    /// - Throws: ``FleetFileError``; `SystemError` where the file cannot be read.
    package init(readingFrom path: String) throws {
        self.path = path
        file = try FleetFile(Self.text(path), path: path)
        find()
    }

    /// - Throws: ``FleetFileError`` for a file that another user may change: it names programs that run.
    private static func text(_ path: String) throws -> String {
        let descriptor = try FileDescriptor(opening: path, .readOnly, mustBeRegular: true)
        let status = try descriptor.status()
        func refusal(_ sentence: String, _ hint: String) -> FleetFileError {
            FleetFileError(path: path, position: nil, sentence: sentence, hint: hint)
        }
        guard [0, ProcessInspector.effectiveUser].contains(status.owner), status.permissions & 0o022 == 0 else {
            throw refusal(
                "Other users may change the file, which names commands that run with your rights.",
                "Give it to root or to yourself, and take the right to write from others: chmod go-w \(ShellWord.path(path))"
            )
        }
        guard status.byteCount <= fileBytes else {
            throw refusal("The file has more than \(fileBytes) bytes.", "Check whether it is the right file.")
        }
        guard let text = String(validating: try descriptor.read(at: 0, byteCount: status.byteCount), as: UTF8.self)
        else {
            throw refusal("The file is not UTF-8.", "Save it as UTF-8.")
        }
        return text
    }

    private mutating func find() {
        var places: [String: Int] = [:]
        for entry in file.entries {
            for pattern in entry.patterns {
                for (path, identity) in found(pattern) {
                    if let place = places[identity] {
                        let former = stores[place]
                        stores[place] = Store(
                            path: former.path, settings: former.settings.overridden(by: entry.settings))
                    } else {
                        places[identity] = stores.count
                        stores.append(Store(path: path, settings: file.defaults.overridden(by: entry.settings)))
                    }
                }
            }
        }
    }

    /// The stores of a pattern, each with its path without links, by which it is recognized.
    private mutating func found(_ pattern: String) -> [(path: String, identity: String)] {
        guard pattern.contains(where: { "*?[".contains($0) }) else { return [(pattern, StorePaths(pattern).database)] }
        guard let paths = Self.matches(pattern), let sidecars = Self.matches(pattern + StorePaths.sidecarEnding) else {
            gaps.append(Gap(pattern: pattern, why: "A folder of the pattern cannot be read."))
            return []
        }
        // The other files of a store match as well.
        let files = paths.filter { path in
            (try? Files.kind(path)) == .regular && ((try? StorePaths.owner(of: path)) ?? nil) == nil
        }
        // A store whose database is gone, or is no file, still has its sidecar. It must not be missing from a report.
        let lost = sidecars.map { String($0.dropLast(StorePaths.sidecarEnding.count)) }.filter { !files.contains($0) }
        let stores = (files + lost).sorted()
        if stores.isEmpty { gaps.append(Gap(pattern: pattern, why: "No store matches the pattern.")) }
        return stores.map { ($0, StorePaths($0).database) }
    }

    /// The paths that match a pattern; nil if a folder of it cannot be read.
    private static func matches(_ pattern: String) -> [String]? {
        var matches = glob_t()
        defer { globfree(&matches) }
        let result = glob(pattern, GLOB_ERR, nil, &matches)
        guard result == 0 || result == GLOB_NOMATCH else { return nil }
        return (0..<Int(matches.gl_pathc)).compactMap { matches.gl_pathv[$0].map { String(cString: $0) } }
    }

    /// Keeps the stores that a pattern of the command line names.
    ///
    /// - Parameter patterns: Of paths, or of names where a pattern has no slash; none keeps all.
    package func only(_ patterns: [String]) -> Fleet {
        guard !patterns.isEmpty else { return self }
        func isMeant(_ path: String) -> Bool {
            patterns.contains { pattern in
                fnmatch(pattern, pattern.contains("/") ? path : Files.name(of: path), 0) == 0
            }
        }
        var fleet = self
        fleet.stores = stores.filter { isMeant($0.path) }
        fleet.gaps = gaps.filter { isMeant($0.pattern) }
        return fleet
    }
}
