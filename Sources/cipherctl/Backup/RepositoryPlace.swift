import KeyCustody
import StoreBackups
import StorePlatform

#if S3
    import S3Storage
#endif

/// The place of a repository as commands name it: a folder, or `s3://BUCKET/PREFIX`.
enum RepositoryPlace {
    /// The options of object storage.
    static let options: [OptionSyntax] = [
        OptionSyntax("--endpoint", value: "URL", "of s3://: the server, in place of AWS's (AWS_ENDPOINT_URL)"),
        OptionSyntax("--s3-credentials-file", value: "F", "of s3://: a file as ~/.aws/credentials; mode 0600"),
        OptionSyntax("--s3-credentials-command", value: "C", "of s3://: a program that prints credentials in JSON"),
        OptionSyntax("--bandwidth", value: "MB", "of s3://: the most megabytes per second"),
    ]

    /// Whether a text names a repository. A place at a server is not asked.
    static func isRepository(_ place: String) -> Bool { isServer(place) || BackupRepository.isAt(place) }

    /// Whether a text names a place at a server, well or badly written.
    static func isServer(_ place: String) -> Bool { place.hasPrefix("s3:") }

    /// Opens a repository.
    ///
    /// - Parameter isCreating: Whether an empty place becomes one.
    static func open(
        _ place: String, _ arguments: ParsedArguments, creating isCreating: Bool = false
    ) throws -> BackupRepository {
        guard !isServer(place) else { return try openServer(place, arguments, isCreating) }
        if let option = options.first(where: { arguments.value($0.name) != nil }) {
            throw UsageError(
                "\(option.name) is for places at object storage.",
                hint: "Name one: s3://BUCKET/PREFIX; or leave it out.")
        }
        if isCreating { try requireFolder(place) }
        return try isCreating ? BackupRepository(creatingAt: place) : BackupRepository(openingAt: place)
    }
}

extension RepositoryPlace {
    /// - Throws: ``CommandFailure`` where nothing is at the place of a new repository.
    static func requireFolder(_ place: String) throws {
        guard !isServer(place), try Files.kind(place) == nil else { return }
        throw CommandFailure(
            .noSuchStore, "noDirectory", what: "There is no folder \"\(place)\".",
            why: "A repository is made in an empty folder, which could be a disk that is not mounted.",
            hint: "Mount it, or make it: mkdir \(ShellWord.path(place)); then run the command again.")
    }
}

#if S3
    extension RepositoryPlace {
        private static func openServer(
            _ place: String, _ arguments: ParsedArguments, _ isCreating: Bool
        ) throws -> BackupRepository {
            var options = try S3Options.ofEnvironment()
            if let endpoint = arguments.value("--endpoint") { options.endpoint = endpoint }
            if let rate = arguments.value("--bandwidth") {
                guard let megabytes = Double(rate), megabytes >= 0.001, megabytes <= 1_000_000 else {
                    throw UsageError(
                        "--bandwidth needs a number of megabytes per second.", hint: "Write: --bandwidth 2.5")
                }
                options.bytesPerSecond = Int(megabytes * 1e6)
            }
            if let source = try credentials(arguments) { options.credentials = source }
            options.isCancelled = { Interruption.hasArrived }
            return try BackupRepository(at: S3Address(place), options, creating: isCreating)
        }

        /// The source that an option names; nil for that of AWS's programs.
        private static func credentials(_ arguments: ParsedArguments) throws -> S3CredentialSource? {
            let (file, command) = (
                arguments.value("--s3-credentials-file"), arguments.value("--s3-credentials-command")
            )
            if let file {
                guard command == nil else {
                    throw UsageError(
                        "--s3-credentials-file and --s3-credentials-command are both given.", hint: "Give one of them.")
                }
                return .file(path: file)
            }
            guard let command else { return nil }
            guard let words = Subprocess.words(of: command), words.first?.isEmpty == false else {
                throw UsageError(
                    "--s3-credentials-command is empty, or a quote or backslash in it is left open.",
                    hint: "Close every quote; for pipes and variables write: sh -c '...'")
            }
            return .command(words, environment: KeyOptions.commandEnvironment())
        }

        /// The meaning of a server's error for a command; nil for other errors.
        static func failure(of error: any Error) -> CommandFailure? {
            guard let error = error as? S3Error else { return nil }
            let exitCode: ExitCode =
                switch error.code {
                case .invalidPlace, .otherRegion: .usage
                case .noCredentials, .wrongCredentials, .expiredCredentials, .accessDenied: .notPermitted
                case .noSuchBucket: .noSuchStore
                case .unknownHost, .unreachable, .timedOut, .connectionLost, .busy: .tryAgain
                case .full: .inputOutput
                case .invalidAnswer: .damagedData
                case .clockSkew, .encryptionFailed, .refused: .failed
                }
            return CommandFailure(
                exitCode, error.code.rawValue, what: error.what + ".", why: error.reason, hint: error.remedy)
        }
    }
#else
    extension RepositoryPlace {
        private static func openServer(
            _ place: String, _ arguments: ParsedArguments, _ isCreating: Bool
        ) throws -> BackupRepository {
            throw CommandFailure(
                .unsupported, "noS3", what: "This program was built without object storage.",
                why: "It needs libcurl, and so the trait S3 of the package.",
                hint: "Build it with: swift build -c release --traits S3; or use a folder.")
        }

        static func failure(of error: any Error) -> CommandFailure? { nil }
    }
#endif
