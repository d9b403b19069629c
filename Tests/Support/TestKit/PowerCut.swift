import Foundation

/// A disk whose power is cut: what was made durable is there, of the rest any part may be.
///
/// It keeps what POSIX promises and no more. Bytes and lengths are durable once their file was synchronized, names once
/// their folder was. Of a file's writes since then any may have reached the disk, each as a whole, by half or not at
/// all, in any order; of a folder's changes the first few, since journals keep their order, or any.
public struct PowerCut {
    /// Which of a folder's changes reach a disk that were not made durable.
    public enum NameOrder: Sendable {
        /// The first few, as with a journal.
        case kept
        /// Each by itself, which POSIX allows.
        case lost
    }

    private struct File {
        var durable = Data()
        var pending: [SystemCallLog.Call] = []
    }

    /// The files in the order of their creation: the system gives the number of a removed file to a new one, while the
    /// disk may still have the name of the removed one.
    private var files: [File] = []
    private var fileOfNumber: [UInt64: Int] = [:]
    /// Which file a path names, for those that ask the system.
    private var names: [String: Int] = [:]
    private var durableNames: [String: Int] = [:]
    private var pendingNames: [[String: Int?]] = []

    /// The state of an empty disk after these calls.
    public init(after calls: some Sequence<SystemCallLog.Call>) {
        for call in calls { apply(call) }
    }

    private mutating func apply(_ call: SystemCallLog.Call) {
        switch call {
        case .create(let number, let path):
            files.append(File())
            fileOfNumber[number] = files.count - 1
            change([path: files.count - 1])
        case .write(let number, _, _), .truncate(let number, _):
            if let file = fileOfNumber[number] { files[file].pending.append(call) }
        case .synchronize(let number, _):
            if let file = fileOfNumber[number] {
                for call in files[file].pending { Self.apply(call, to: &files[file].durable) }
                files[file].pending = []
            } else {
                // A folder; the stores of these tests have one.
                durableNames = names
                pendingNames = []
            }
        case .rename(let path, let newPath): change([path: nil, newPath: names[path]])
        case .link(let path, let newPath): change([newPath: names[path]])
        case .unlink(let path): change([path: nil])
        }
    }

    private mutating func change(_ changes: [String: Int?]) {
        for (path, file) in changes { names[path] = file }
        pendingNames.append(changes)
    }

    private static func apply(_ call: SystemCallLog.Call, to bytes: inout Data, by part: Double = 1) {
        switch call {
        case .write(_, let offset, let written):
            let piece = written.prefix(Int(Double(written.count) * part))
            let end = offset + piece.count
            if bytes.count < end { bytes.append(Data(count: end - bytes.count)) }
            bytes.replaceSubrange(offset..<end, with: piece)
        case .truncate(_, let count):
            bytes = bytes.count > count ? Data(bytes.prefix(count)) : bytes + Data(count: count - bytes.count)
        default: break
        }
    }

    /// Whether something of a file that was written is not durable.
    public func hasUnsaved(_ path: String) -> Bool { names[path].map { files[$0].pending.isEmpty } == false }

    /// Writes what is left on the disk into a folder.
    ///
    /// - Parameters:
    ///   - keeping: How likely a change that was not made durable is there nevertheless; 0 for none of them.
    ///   - order: Which changes of names are.
    ///   - ignored: Endings of files that are of no use after a cut and are left out, such as shared memory.
    public func restore(
        from folder: String, to newFolder: String, keeping likelihood: Double, names order: NameOrder = .kept,
        ignoring ignored: [String], using numbers: inout RandomNumbers
    ) throws {
        var names = durableNames
        for changes in pendingNames {
            guard Double.random(in: 0..<1, using: &numbers) < likelihood else {
                if order == .kept { break } else { continue }
            }
            for (path, file) in changes { names[path] = file }
        }
        var written: [Int: String] = [:]
        for (path, number) in names.sorted(by: { $0.key < $1.key }) where path.hasPrefix(folder + "/") {
            guard !ignored.contains(where: { path.hasSuffix($0) }) else { continue }
            let newPath = newFolder + path.dropFirst(folder.count)
            try FileManager.default.createDirectory(
                at: URL(fileURLWithPath: newPath).deletingLastPathComponent(), withIntermediateDirectories: true)
            // A file with two names is still one.
            if let first = written[number] {
                try FileManager.default.linkItem(atPath: first, toPath: newPath)
                continue
            }
            written[number] = newPath
            var bytes = files[number].durable
            for call in files[number].pending where Double.random(in: 0..<1, using: &numbers) < likelihood {
                Self.apply(call, to: &bytes, by: Bool.random(using: &numbers) ? 1 : 0.5)
            }
            try bytes.write(to: URL(fileURLWithPath: newPath))
        }
    }
}
