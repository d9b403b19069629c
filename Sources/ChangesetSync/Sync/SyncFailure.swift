import StorePlatform

/// Two errors of one ``SyncManager/sync()``: what came before the push has failed, and the push for another reason.
public struct SyncFailure: Error {
    /// The error of the fetch, of a merge or of the pull.
    public let first: any Error
    /// The error of the push.
    public let push: any Error

    /// The error of a push after another one; the first one alone where both say the same.
    static func joining(_ first: any Error, _ push: any Error) -> any Error {
        if push is CancellationError { return push }
        return "\(first)" == "\(push)" ? first : SyncFailure(first: first, push: push)
    }

    /// Whether nothing may be pushed after an error of the fetch: the remote is another one, or a newer version has made
    /// it, or what this store has does not build on its history; or the call is to end.
    static func forbidsPush(_ error: any Error) -> Bool {
        switch error {
        case let error as RemoteError:
            switch error {
            case .otherRepository, .unknownVersion: true
            default: false
            }
        case let error as SyncError:
            switch error.code {
            case .otherRepository, .baseTooOld, .checkpointUnsupported, .notEnabled, .damagedRepository: true
            default: false
            }
        case is CancellationError, is StoreError: true
        default: false
        }
    }
}

extension SyncFailure: CustomStringConvertible {
    public var description: String { "\(first) The push failed as well: \(push)" }
}

extension Result where Failure == any Error {
    /// What a call that waits has returned or thrown: where its error is kept until a later call has ended.
    package init(of body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
