import StorePlatform

/// The settings of Linux that decide whether a crash of a process leaves a core image, which holds the keys of its open
/// stores.
struct CoreImages: Hashable, Sendable {
    /// The soft limit of the size of core files, as /proc/PID/limits has it.
    var limit: String
    /// /proc/sys/kernel/core_pattern: the name of the files, or `|` and the program that receives the images.
    var pattern: String
    /// Whether the process may allow core dumps.
    var isDumpable: Bool

    /// That of this process; nil where the system does not show it.
    static var ofThisProcess: CoreImages? {
        guard let limits = text(of: "/proc/self/limits"), let pattern = text(of: "/proc/sys/kernel/core_pattern"),
            let line = limits.split(separator: "\n").first(where: { $0.hasPrefix("Max core file size") })
        else { return nil }
        let limit = line.split(separator: " ").dropFirst(4).first.map(String.init) ?? ""
        return CoreImages(limit: limit, pattern: pattern, isDumpable: mayBeDumpable)
    }

    var result: CheckResult {
        if !isDumpable { return CheckResult(.coreImage, .pass, "this process allows no core dumps") }
        // A program that receives images gets them whatever the limit is: only files count. See core(5).
        let hasReceiver = pattern.hasPrefix("|")
        if limit == "0", !hasReceiver { return CheckResult(.coreImage, .pass, "the limit of core files is 0") }
        let image =
            hasReceiver
            ? "the kernel hands core images, which hold the key, to a program, whatever the limit of "
                + "core files is, and it is not known that this process forbids them"
            : "this process may leave a core image of \(limit) bytes, which holds the key"
        let remedy =
            hasReceiver
            ? "Configuration.disablesCoreDumps, or Storage=none of systemd-coredump"
            : "ulimit -c 0, LimitCORE=0 of systemd, or Configuration.disablesCoreDumps"
        return CheckResult(.coreImage, .knownLimit, image, "would prevent it: \(remedy)")
    }

    /// The files of a process that forbids core dumps belong to root, see proc(5). Those of a process of root always do,
    /// so that they show nothing.
    private static var mayBeDumpable: Bool {
        let owner = ((try? Files.status(of: "/proc/self/limits")) ?? nil)?.owner
        return owner == ProcessInspector.effectiveUser
    }

    private static func text(of path: String) -> String? {
        guard let file = try? FileDescriptor(opening: path, .readOnly),
            let bytes = try? file.read(at: 0, byteCount: 8192)
        else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}
