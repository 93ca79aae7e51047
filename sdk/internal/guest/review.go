package guest

import (
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
)

type (
	// ReviewFunc reviews a request, with the author's types erased. An error is part of the result.
	ReviewFunc func(Host, *webhooks.ReviewRequest) (abi.Code, *webhooks.ReviewResult)
	// ConvertFunc converts an object. An error is part of the result.
	ConvertFunc func(*webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult)
)

// functionOf is a function of a controller.
type functionOf[F any] struct {
	controller string // its name
	call       F
}

var (
	validators, mutators []functionOf[ReviewFunc]
	converters           []functionOf[ConvertFunc]
	warmers              []functionOf[func() error] // of types that are in neither spec nor status
)

// AddValidator adds the function of a controller for the export validate. A plugin that does not call
// it does not contain the code of reviews.
func AddValidator(controller string, review ReviewFunc) {
	validators = append(validators, functionOf[ReviewFunc]{controller, review})
	exportValidate()
}

// AddMutator is [AddValidator] for the export mutate.
func AddMutator(controller string, review ReviewFunc) {
	mutators = append(mutators, functionOf[ReviewFunc]{controller, review})
	exportMutate()
}

// AddConverter is [AddValidator] for the export convert.
func AddConverter(controller string, convert ConvertFunc) {
	converters = append(converters, functionOf[ConvertFunc]{controller, convert})
	exportConvert()
}

// AddWarm adds a function that encodes and decodes zero values; see [Warm].
func AddWarm(controller string, warm func() error) {
	warmers = append(warmers, functionOf[func() error]{controller, warm})
}

// Validate reviews the text of an [webhooks.ReviewRequest] and returns the text of an [webhooks.ReviewResult].
func Validate(h Host, request []byte) (abi.Code, []byte) { return review(validators, h, request) }

// Mutate is [Validate] for the export mutate.
func Mutate(h Host, request []byte) (abi.Code, []byte) { return review(mutators, h, request) }

func review(all []functionOf[ReviewFunc], h Host, request []byte) (abi.Code, []byte) {
	q, err := webhooks.DecodeReviewRequest(request)
	if err != nil {
		return badReview("read request: " + err.Error())
	}
	for _, f := range all {
		if f.controller == q.Controller {
			code, result := f.call(h, q)
			return code, webhooks.EncodeReviewResult(result)
		}
	}
	return badReview("the plugin does not review for controller " + strconv.Quote(q.Controller))
}

// badReview is [badRequest] for a review.
func badReview(message string) (abi.Code, []byte) {
	return abi.CodeRetry, webhooks.EncodeReviewResult(&webhooks.ReviewResult{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}

// Convert converts for the text of an [webhooks.ConvertRequest] and returns the text of an
// [webhooks.ConvertResult].
func Convert(request []byte) (abi.Code, []byte) {
	q, err := webhooks.DecodeConvertRequest(request)
	if err != nil {
		return badConversion("read request: " + err.Error())
	}
	for _, f := range converters {
		if f.controller == q.Controller {
			code, result := f.call(q)
			return code, webhooks.EncodeConvertResult(result)
		}
	}
	return badConversion("the plugin does not convert for controller " + strconv.Quote(q.Controller))
}

// badConversion is [badRequest] for a conversion.
func badConversion(message string) (abi.Code, []byte) {
	return abi.CodeRetry, webhooks.EncodeConvertResult(&webhooks.ConvertResult{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
